"""From text notebooks to the book: parameters, execution, cache and pages."""
