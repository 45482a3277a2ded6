"""The scoreboard: what all cells found, on one page that needs nothing beside itself."""
