"""The archive that the compiler reads: graph, units, weights."""
