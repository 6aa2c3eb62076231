"""The pool of demonstrations, rankings of it, and budgets that cut a ranking (paper, sections 4.2 and 4.3)."""
