"""The HTTP interface: reads what campaigns have stored. ``api.app:create_app`` makes it."""
