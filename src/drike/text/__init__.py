"""What people write, in a dozen languages: words, names, sentences, and what of a text is asked."""
