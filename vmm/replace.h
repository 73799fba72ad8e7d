/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * replace.h - ebbd --replace: take the place of a running daemon, after all that can be checked was checked.
 */
#ifndef VMM_REPLACE_H
#define VMM_REPLACE_H

#include "daemon.h"

/**
 * replace_check() - could this program take over each guest in the state directory, as it is now?
 *
 * State files of this version, stores that can be opened and read. Nothing is locked or changed: another daemon may
 * work on them. -errno with a sentence.
 */
int replace_check(const struct daemon_conf *conf, struct ebb_err *err);

/**
 * replace_old() - have the daemon at the socket hand its guests over, and end
 *
 * 0: it has been asked; its lock on the state directory goes when it is done. -ENOENT: none answers there. Else it
 * refused, or cannot do that, and works on: a sentence.
 */
int replace_old(const struct daemon_conf *conf, struct ebb_err *err);

#endif
