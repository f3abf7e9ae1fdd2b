"""Questions of a study of 2011, asked of a real kernel client."""
