"""Cases that a simulation and the real thing must both pass."""
