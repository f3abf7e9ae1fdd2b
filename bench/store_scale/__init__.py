"""How fast campaigns that ran for long are taken up again and shown."""
