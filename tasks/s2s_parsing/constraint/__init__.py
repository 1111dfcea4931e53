"""Constrained decoding: only well-formed trees, and a fallback if the search finds none. No torch at import."""
