//! Checks of the repository itself: tidy and CI steps.
