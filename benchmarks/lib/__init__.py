"""Research that won nothing a user would feel: kept so that the rows in docs/results can be measured again."""
