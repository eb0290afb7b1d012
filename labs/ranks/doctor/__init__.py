"""The doctor: reads the journals of the ranks, and explains a run that does not come to its end.

    journal.R ─► standing ─► stuck ─► deadlock ─► Diagnosis (words, picture of who waits for whom)
                    watch ──────┘        └── stacks: what the processes themselves say
                      └──► misfits: calls that were matched, of a run that came to its end

Everything here runs in the kernel and needs no answer from a rank that cannot give one.
"""
