"""The pictures of README and documentation; ``make pictures`` draws them."""
