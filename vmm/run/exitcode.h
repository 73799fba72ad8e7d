/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exitcode.h - what ebb-run exits with when the code is not QEMU's own; listed in ebb-run(1).
 */
#ifndef RUN_EXITCODE_H
#define RUN_EXITCODE_H

enum run_exit {
	RUN_EXIT_REFUSED = 120,	    /* the daemon refused to attach; the guest ran no instruction */
	RUN_EXIT_NO_DAEMON = 121,   /* no daemon answered and none could be started */
	RUN_EXIT_UNSUPPORTED = 122, /* the command line holds something that cannot be converted */
	RUN_EXIT_NO_MONITOR = 123,  /* QEMU's monitor failed: the guest was not started */
	RUN_EXIT_FAILED = 125,	    /* usage, or a failure of ebb-run itself */
	RUN_EXIT_CANNOT_EXEC = 126,
	RUN_EXIT_NOT_FOUND = 127,
	RUN_EXIT_SIGNAL = 128, /* + number of the signal that ended QEMU */
};

#endif
