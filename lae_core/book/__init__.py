"""From text notebooks to the book: parameters, execution, cache, pages, and the browser that checks them."""
