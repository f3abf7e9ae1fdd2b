"""Export a configuration in formats that administrators use: configuration files and commands."""
