"""The measuring harness: settings, contestants in rounds, numbers, a table, JSON and a figure.

`experiment.Experiment` alternates contestants; `command.Command` is any measurement with options
and a result. Claims and the scripts in ``bench`` use their parts too: `settings` (options, values
and defaults from one declaration), `rounds` (the order of runs), `table_numbers` (numbers of runs,
and over rounds or seeds), `panels` (figures).
"""
