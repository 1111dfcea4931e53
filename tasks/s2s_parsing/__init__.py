"""Constituency parsing, as a plugin: treebanks, trees as symbols, and their scores."""
