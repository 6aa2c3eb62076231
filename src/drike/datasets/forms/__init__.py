"""One module per published form of a data set."""
