"""What `RunConfig` and `FrozenConfig` share: fields that pydantic checks, errors in one line, a key that names the run."""

from __future__ import annotations

import hashlib
import json
import math
import numbers
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from lae_core.pooling import PoolSpec
from lae_core.training.datasets import DATASETS
from lae_core.training.words import did_you_mean

# Types of fields. The description is what an error says is accepted.
Count = Annotated[int, Field(ge=1, description="an integer of at least 1")]
Positive = Annotated[float, Field(gt=0, description="a finite number above 0")]
Flag = Annotated[bool, Field(description="True or False")]
Pool = Annotated[str, AfterValidator(lambda text: str(PoolSpec.parse(text)))]  # as `PoolSpec` text
if TYPE_CHECKING:
    DataName = str
else:
    DataName = Literal[tuple(DATASETS)]


class BaseConfig(BaseModel):
    """Plain values that decide the outcome of a run, checked when it is made and never changed.

    The key leaves out fields at their default, so a field added later changes no old name; hence a default, once
    published, is never changed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ValueError(self._in_one_line(error, values)) from None

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """What `help` and the page of the package show: fields with their defaults, without how they are checked."""
        fields = cls.model_fields.items()
        cls.__signature__ = Signature([Parameter(n, Parameter.KEYWORD_ONLY, default=f.default) for n, f in fields])

    @model_validator(mode="before")
    @classmethod
    def _plain_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Whole floats are taken for integers, numpy's numbers for Python's and lists for tuples; nothing else is."""
        return {name: _plain(value) for name, value in values.items()}

    @classmethod
    def _in_one_line(cls, error: ValidationError, values: dict[str, Any]) -> str:
        """The first thing that is wrong: config, field, value, and what is accepted."""
        first = error.errors()[0]
        if not first["loc"]:  # from `check`
            return str(first["ctx"]["error"])
        name = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            hint = did_you_mean(name, cls.model_fields) or f"; expected one of {', '.join(cls.model_fields)}"
            return f"{cls.__name__}: no field {name!r}{hint}"
        if first["type"] == "value_error":  # from a field's own function; of a list, the one value that is wrong
            return f"{cls.__name__}: {name} = {first['input']!r} is invalid: {first['ctx']['error']}"
        said = f"{cls.__name__}: {name} = {values[name]!r} is invalid"
        expected = cls.model_fields[name].description
        if first["type"] == "literal_error" and not expected:
            words = cls.words(name)
            return f"{said}; expected one of {', '.join(words)}{did_you_mean(values[name], words)}"
        return f"{said}; expected {expected or first['msg'].removeprefix('Input should be ')}"

    def check(self, name: str, good: bool, expected: str) -> None:
        """Raise ValueError unless the value of a field is good."""
        if not good:
            raise ValueError(f"{type(self).__name__}: {name} = {getattr(self, name)!r} is invalid; expected {expected}")

    @classmethod
    def words(cls, name: str) -> tuple[str, ...]:
        """The words that a field can hold."""
        return get_args(cls.model_fields[name].annotation)

    def __str__(self) -> str:
        return repr(self)

    def replace(self, **changes: Any) -> Self:
        """The same run with some fields changed, checked again."""
        return type(self)(**dict(self) | changes)

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON can hold them."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The config that `to_dict` gave; fields that it does not name take their defaults."""
        return cls(**values)

    def changed(self) -> dict[str, Any]:
        """The fields that differ from their default, as JSON can hold them."""
        return self.model_dump(mode="json", exclude_defaults=True)


def name_of(fields: dict[str, Any], **format: Any) -> str:
    """16 hex digits of the sha256 of fields as JSON."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True, **format).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_plain(part) for part in value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return value
    number = float(value)
    return int(number) if math.isfinite(number) and number == int(number) else number
