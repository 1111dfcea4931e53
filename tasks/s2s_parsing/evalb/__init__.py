"""EVALB, in Python: the same figures sentence by sentence, without its limits on words and brackets."""
