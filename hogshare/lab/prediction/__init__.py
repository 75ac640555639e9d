"""What a measured run would take elsewhere: with other numbers of workers, on cores of their own.

`Report.predict` is the way in.
"""
