"""The measuring harness: settings, contestants in rounds, numbers, a table, JSON and a figure.

`command.Command` is any measurement with options and a result. `experiment.Experiment` is a command
that runs contestants one by one. These classes consist of parts that the claims and the scripts in
``bench`` also use: `settings` (options, values and defaults from one declaration), `rounds` (the
order of runs), `table_numbers` (numbers of runs, and over rounds or seeds) and `panels` (figures).
"""
