/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * notify.h - tell the service manager how we are: sd_notify(3), without its library.
 */
#ifndef VMM_NOTIFY_H
#define VMM_NOTIFY_H

/** notify_send() - such as "READY=1"; nothing where nobody asked for it ($NOTIFY_SOCKET) */
void notify_send(const char *text);

#endif
