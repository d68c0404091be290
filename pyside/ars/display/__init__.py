"""How results and progress look: plain lines, a terminal (rich), a notebook (HTML)."""
