// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * control.c - the daemon's UNIX socket: listening, epoll, accepting clients, closing.
 *
 * DOC: one descriptor for the main loop
 *
 * The listening socket, every client and one eventfd (events raised, slow commands ended) live
 * in an epoll set, and the set itself is the descriptor the main loop polls. A dispatch never
 * waits, and does a bounded amount for each client, so that none can keep the loop from the
 * others or from its timers.
 *
 * Epoll data is a serial number, never a pointer: a session closed by one event of a batch is
 * simply not found by the next.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <ebb/log.h>
#include "control_internal.h"

#define SERIAL_LISTEN 0
#define SERIAL_WAKE   1
#define SERIAL_FIRST  2

#define SOCKET_MODE 0660

void control_wake(struct control *c)
{
	uint64_t one = 1;

	/* It can only fail when the counter is full: then the loop is being woken already. */
	if (write(c->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		log_limited(LOG_LVL_ERR, "cannot wake the control socket: %s", strerror(errno));
}

/* --- listening -------------------------------------------------------------------------------- */

/** lock_directory() - two daemons starting at once must not take turns at the stale file below */
static int lock_directory(const char *path, int *ret_fd, struct ebb_err *err)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	_cleanup_free_ char *copy = strdup(path);
	const char *dir;
	int fd, tries;

	if (!copy)
		return ebb_err_set(err, -ENOMEM, "Out of memory");
	dir = dirname(copy);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return ebb_err_set(err, -errno, "Cannot open %s, where the socket is to be: %s",
				   dir, strerror(errno));
	for (tries = 0; flock(fd, LOCK_EX | LOCK_NB); tries++) {
		if (tries == 40) {
			close(fd);
			return ebb_err_set(err, -EBUSY,
					   "Somebody holds a lock on %s: is another daemon "
					   "starting there?",
					   dir);
		}
		nanosleep(&pause, NULL);
	}
	*ret_fd = fd;
	return 0;
}

/** remove_stale() - make way at @addr, unless somebody lives there: connect before unlink */
static int remove_stale(const struct sockaddr_un *addr, struct ebb_err *err)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	int rc;

	if (lstat(addr->sun_path, &st))
		return errno == ENOENT ? 0 : ebb_err_set(err, -errno, "Cannot look at %s: %s",
							 addr->sun_path, strerror(errno));
	if (!S_ISSOCK(st.st_mode))
		return ebb_err_set(err, -EEXIST,
				   "%s exists and is not a socket: move it away or use another "
				   "path",
				   addr->sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return ebb_err_set(err, -errno, "Cannot make a socket: %s", strerror(errno));
	rc = connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) ? -errno : 0;
	if (!rc || rc == -EAGAIN)
		return ebb_err_set(err, -EADDRINUSE,
				   "A daemon answers at %s already: use that one, or another path",
				   addr->sun_path);
	if (rc != -ECONNREFUSED)
		return ebb_err_set(err, rc, "Cannot tell whether a daemon answers at %s: %s",
				   addr->sun_path, strerror(-rc));
	if (unlink(addr->sun_path) && errno != ENOENT)
		return ebb_err_set(err, -errno, "Cannot remove the stale socket %s: %s",
				   addr->sun_path, strerror(errno));
	return 0;
}

/** bind_socket() - bind, then set the mode, then listen: nobody connects in between */
static int bind_socket(struct control *c, const struct sockaddr_un *addr, struct ebb_err *err)
{
	struct stat st;
	int rc;

	if (bind(c->listen_fd, (const struct sockaddr *)addr, sizeof(*addr)))
		return ebb_err_set(err, -errno, "Cannot make the socket %s: %s", addr->sun_path,
				   strerror(errno));
	if (chmod(addr->sun_path, SOCKET_MODE) || lstat(addr->sun_path, &st) ||
	    listen(c->listen_fd, 16)) {
		rc = -errno;
		unlink(addr->sun_path);
		return ebb_err_set(err, rc, "Cannot listen at %s: %s", addr->sun_path,
				   strerror(-rc));
	}
	c->dev = st.st_dev;
	c->ino = st.st_ino;
	return 0;
}

static int start_listening(struct control *c, struct ebb_err *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	_cleanup_close_ int lock = -1;
	int rc;

	if (strlen(c->path) >= sizeof(addr.sun_path))
		return ebb_err_set(err, -ENAMETOOLONG,
				   "The socket's path may have %zu characters, %s is longer",
				   sizeof(addr.sun_path) - 1, c->path);
	strcpy(addr.sun_path, c->path);
	rc = lock_directory(c->path, &lock, err);
	if (!rc)
		rc = remove_stale(&addr, err);
	if (!rc)
		rc = bind_socket(c, &addr, err);
	return rc;
}

static int watch(struct control *c, int fd, uint64_t serial)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = serial };

	return epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int open_descriptors(struct control *c, struct ebb_err *err)
{
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	c->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (c->epoll_fd < 0 || c->wake_fd < 0 || c->listen_fd < 0 ||
	    watch(c, c->wake_fd, SERIAL_WAKE))
		return ebb_err_set(err, -errno, "Cannot open descriptors for the socket %s: %s",
				   c->path, strerror(errno));
	return 0;
}

int control_open(const char *path, const struct control_command *commands, void *daemon,
		 struct control **ret, struct ebb_err *err)
{
	struct control *c = calloc(1, sizeof(*c));
	char *copy = strdup(path);
	int rc;

	if (!c || !copy) {
		free(c);
		free(copy);
		return ebb_err_set(err, -ENOMEM, "Out of memory");
	}
	c->path = copy;
	c->epoll_fd = c->listen_fd = c->wake_fd = c->spare_fd = -1;
	c->commands = commands;
	c->daemon = daemon;
	c->next_serial = SERIAL_FIRST;
	c->events_tail = &c->events;
	pthread_mutex_init(&c->lock, NULL);
	json_object_seed(0); /* here, before there are threads that could race for it */
	rc = open_descriptors(c, err);
	if (!rc)
		rc = start_listening(c, err);
	if (!rc && watch(c, c->listen_fd, SERIAL_LISTEN))
		rc = ebb_err_set(err, -errno, "Cannot poll the socket %s: %s", path,
				 strerror(errno));
	if (rc) {
		control_close(c);
		return rc;
	}
	*ret = c;
	return 0;
}

/** owns_path() - is the file at our path still the socket we made? *@ret_owner: whose it is */
static bool owns_path(const struct control *c, uid_t *ret_owner)
{
	struct stat st;

	if (!c->ino || lstat(c->path, &st) || st.st_dev != c->dev || st.st_ino != c->ino)
		return false;
	*ret_owner = st.st_uid;
	return true;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void control_close(struct control *c)
{
	struct session *s;
	uid_t owner;

	if (!c)
		return;
	close_fd(c->listen_fd);
	if (owns_path(c, &owner))
		unlink(c->path);
	control_finish_jobs(c);
	while ((s = c->sessions)) {
		c->sessions = s->next;
		session_free(s);
	}
	control_event_discard(c);
	close_fd(c->epoll_fd);
	close_fd(c->wake_fd);
	close_fd(c->spare_fd);
	pthread_mutex_destroy(&c->lock);
	free(c->path);
	free(c);
}

/* --- clients ---------------------------------------------------------------------------------- */

/** may_command() - root and the owner of the socket file, who may be changed by chown */
static bool may_command(const struct control *c, int fd, struct ebb_err *err)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	uid_t owner = geteuid();

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len)) {
		ebb_err_set(err, 0, "Cannot tell who you are: %s", strerror(errno));
		return false;
	}
	owns_path(c, &owner);
	if (!peer.uid || peer.uid == owner)
		return true;
	ebb_err_set(err, 0,
		    "Only root and uid %u, who owns the socket, may command ebb, and you are uid "
		    "%u: use sudo, or let root chown the socket",
		    owner, peer.uid);
	log_warn("refused a client: pid %d is uid %u, not root or uid %u", peer.pid, peer.uid,
		 owner);
	return false;
}

/** turn_away() - one error message and goodbye, as far as the socket takes it */
static void turn_away(int fd, const struct ebb_err *err)
{
	json_t *msg = control_error_message(NULL, "GenericError", err->msg);
	_cleanup_free_ char *text = json_dumps(msg, JSON_ENSURE_ASCII);

	if (text) {
		send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
		send(fd, "\r\n", 2, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	json_decref(msg);
	close(fd);
}

/** shed_client() - no descriptor left for a waiting client: spend the spare one to hang up on it */
static void shed_client(struct control *c)
{
	log_limited(LOG_LVL_WARN, "no descriptor left for another client of %s", c->path);
	close_fd(c->spare_fd);
	close_fd(accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC));
	c->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void sweep_sessions(struct control *c)
{
	struct session **link = &c->sessions, *s;

	while ((s = *link)) {
		if (!s->dead) {
			link = &s->next;
			continue;
		}
		*link = s->next;
		c->nr_sessions--;
		session_free(s);
	}
}

static void accept_client(struct control *c)
{
	int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct session *s;
	struct ebb_err err;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			shed_client(c);
		return;
	}
	if (!may_command(c, fd, &err)) {
		turn_away(fd, &err);
		return;
	}
	if (c->nr_sessions >= CONTROL_MAX_SESSIONS)
		sweep_sessions(c); /* some may have left in this very dispatch */
	if (c->nr_sessions >= CONTROL_MAX_SESSIONS) {
		ebb_err_set(&err, 0, "%u clients are connected, which is the most: close one",
			    c->nr_sessions);
		turn_away(fd, &err);
		return;
	}
	s = session_open(c, fd);
	if (!s)
		return;
	s->next = c->sessions;
	c->sessions = s;
	c->nr_sessions++;
}

static struct session *find_session(struct control *c, uint64_t serial)
{
	struct session *s;

	for (s = c->sessions; s; s = s->next)
		if (s->serial == serial)
			return s;
	return NULL;
}

/* --- the main loop's side --------------------------------------------------------------------- */

int control_fd(const struct control *c)
{
	return c->epoll_fd;
}

static void on_wake(struct control *c)
{
	uint64_t count;

	/* Emptied first: what is raised from here on wakes us again. */
	if (read(c->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_limited(LOG_LVL_ERR, "cannot read the eventfd: %s", strerror(errno));
	control_event_flush(c);
	control_job_reap(c);
}

static void on_session(struct control *c, const struct epoll_event *ev)
{
	struct session *s = find_session(c, ev->data.u64);

	if (!s || s->dead)
		return;
	if (ev->events & (EPOLLHUP | EPOLLERR))
		session_hangup(s);
	else
		session_run(s);
}

void control_dispatch(struct control *c)
{
	struct epoll_event ev[16];
	int n, i;

	n = epoll_wait(c->epoll_fd, ev, ARRAY_SIZE(ev), 0);
	for (i = 0; i < n; i++) {
		if (ev[i].data.u64 == SERIAL_LISTEN)
			accept_client(c);
		else if (ev[i].data.u64 == SERIAL_WAKE)
			on_wake(c);
		else
			on_session(c, &ev[i]);
	}
	sweep_sessions(c);
}
