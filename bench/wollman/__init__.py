"""Questions from a study of 2011, repeated with a real kernel client."""
