"""What a campaign does next, decided from its stored measurements alone. Pure."""
