"""How well intents find their tools: quality, honest noes, learning, time and memory, beside baselines in the same run."""
