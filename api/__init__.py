"""HTTP API and web pages for stored campaigns. Created by ``api.app:create_app``."""
