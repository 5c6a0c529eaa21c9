"""Simulates the commit path of many Diwan processes over one PostgreSQL: `python -m bench.simulate`. docs/scale.md has the results."""
