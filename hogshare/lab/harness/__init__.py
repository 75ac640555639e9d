"""One way to measure: settings, contestants in rounds, numbers, a table, JSON and a picture.

`experiment.Experiment` is contestants that alternate; `command.Study` is anything else with options
and a result. Their pieces serve claims and the scripts in ``bench`` too: `settings` (from one
declaration options, values and defaults), `rounds` (who runs when), `table_numbers` (what is read
off runs, and over rounds or seeds), `panels` (pictures).
"""
