"""What a fitted model says: recommendations, whether it fits, how groups of samples differ."""
