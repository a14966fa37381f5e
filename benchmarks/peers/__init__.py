"""gapmf beside what people use today: one definition of quality and of cost for all.

`make bench` runs the plan and writes docs/comparison.md; `make bench-quick` tries all of it on
small data. The parts: `data` (what is fitted), `protocol` (what a peer is), one module per family
of peers, `registry` (all of them), `measures` (quality), `watch` (cost), `cell` (one fit, in a
process of its own), `plan` (which cells), `runner` (runs and resumes them), `ranks` (how many
components), `summary` (what the page is made from).
"""
