"""Operators and modules that capture gives another form: one that a graph can hold."""
