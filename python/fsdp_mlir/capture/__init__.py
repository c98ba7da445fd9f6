"""From a step that Python runs to one graph of ATen operators, forward and backward."""
