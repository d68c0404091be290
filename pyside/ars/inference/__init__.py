"""How a posterior is computed: with a fixed budget in one run, or with one that decides itself in two phases."""
