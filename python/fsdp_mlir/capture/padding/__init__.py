"""Sizes that depend on values, made static: tensors with padding, and a rule for each operator."""
