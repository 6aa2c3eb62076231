"""Whether an answer is right (`matching`, read strictly), and what it states of an edit (`statements`, read freely)."""
