"""A training run: built, trained, validated, saved."""
