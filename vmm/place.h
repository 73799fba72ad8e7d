/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * place.h - the directories a daemon works in, and the lock by which one at a time does.
 */
#ifndef VMM_PLACE_H
#define VMM_PLACE_H

/** place_make_dir() - there, ours, not writable by others; else -errno, and the log says why */
int place_make_dir(const char *path);

/**
 * place_lock() - one daemon works on a state directory; waits up to @wait_ms for another to end
 *
 * Returns the descriptor that holds the lock. A dead daemon's goes when its last I/O is over. -EBUSY: it did not.
 */
int place_lock(const char *dir, int wait_ms);

#endif
