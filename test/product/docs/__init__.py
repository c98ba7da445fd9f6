"""The reference pages, made of the sources that they describe."""
