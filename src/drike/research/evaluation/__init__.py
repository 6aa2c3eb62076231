"""Was it right? A model's answers under edits, how they are judged, and the figures on them."""
