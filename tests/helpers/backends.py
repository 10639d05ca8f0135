"""What compiles: the tracer always; the code generator, which takes seconds for each graph, in the long tests.

`test_compiles_whole` in tests/pooling/test_functional.py generates code for both forms of the operator in every run.
"""

import pytest

each_backend = pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.long)])
