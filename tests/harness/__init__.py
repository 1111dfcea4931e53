"""What several tests share: toy models, tasks and plugins, small runs, slower second truths, and processes."""
