"""Research that won nothing a user would feel: kept so that the rows in benchmarks/notes can be measured again."""
