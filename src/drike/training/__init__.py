"""Training: Algorithm 1 in `reinforce`, and the parts that vary around it.

rewards     what an attempt earns: the paper's reward, and answers recorded by a run that was stopped
choices     which retains an episode tries: top-j, drawn, renormalised
schedules   pace (one edit after the other, or blocks of edits) and channel (rewards that arrive late or falsified)
"""
