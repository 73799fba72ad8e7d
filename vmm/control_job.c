// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * control_job.c - slow commands, each in a thread of its own.
 *
 * The thread gets the checked arguments and gives back a reply; the session stays the main
 * loop's. A job knows its session by serial number only, so that the client may be gone when it
 * ends: the reply is then dropped, the command has still done its work.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "control_internal.h"

struct job {
	struct job *next;
	struct control *c;
	uint64_t serial; /* of the session */
	const struct control_command *cmd;
	json_t *args;
	pthread_t thread;
	bool done; /* under the lock */
	int rc;
	struct control_reply reply;
};

static void *job_thread(void *arg)
{
	struct job *job = arg;
	int rc = job->cmd->run(job->c->daemon, job->args, &job->reply);

	pthread_mutex_lock(&job->c->lock);
	job->rc = rc;
	job->done = true;
	pthread_mutex_unlock(&job->c->lock);
	control_wake(job->c);
	return NULL;
}

/** job_spawn() - with every signal blocked: they are for the main loop */
static int job_spawn(struct job *job)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&job->thread, NULL, job_thread, job);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

static void job_free(struct job *job)
{
	json_decref(job->args);
	free(job);
}

int control_job_start(struct session *s, const struct control_command *cmd, json_t *args,
		      struct ebb_err *err)
{
	struct control *c = s->c;
	struct job *job;
	int rc;

	if (c->nr_jobs >= CONTROL_MAX_JOBS)
		return ebb_err_set(err, -EBUSY,
				   "%u slow commands are running: wait for one to end, then try "
				   "again",
				   c->nr_jobs);
	job = calloc(1, sizeof(*job));
	if (!job)
		return ebb_err_set(err, -ENOMEM, "Out of memory");
	job->c = c;
	job->serial = s->serial;
	job->cmd = cmd;
	job->args = json_incref(args);
	rc = job_spawn(job);
	if (rc) {
		job_free(job);
		return ebb_err_set(err, rc, "Cannot start a thread for %s: %s", cmd->name,
				   strerror(-rc));
	}
	job->next = c->jobs;
	c->jobs = job;
	c->nr_jobs++;
	return 0;
}

static struct session *job_session(const struct job *job)
{
	struct session *s;

	for (s = job->c->sessions; s; s = s->next)
		if (s->serial == job->serial)
			return s;
	return NULL;
}

/** job_finish() - the thread has ended: reply if there is somebody to */
static void job_finish(struct job *job)
{
	struct session *s = job_session(job);
	json_t *id;

	pthread_join(job->thread, NULL);
	control_event_flush(job->c);
	if (s) {
		id = s->busy_id;
		s->busy_id = NULL;
		s->busy = false;
		control_send_reply(s, id, job->rc, &job->reply);
		json_decref(id);
		session_run(s);
	} else {
		json_decref(job->reply.value);
	}
}

static struct job *job_take_done(struct control *c)
{
	struct job **link, *job = NULL;

	pthread_mutex_lock(&c->lock);
	for (link = &c->jobs; *link; link = &(*link)->next) {
		if (!(*link)->done)
			continue;
		job = *link;
		*link = job->next;
		c->nr_jobs--;
		break;
	}
	pthread_mutex_unlock(&c->lock);
	return job;
}

void control_job_reap(struct control *c)
{
	struct job *job;

	while ((job = job_take_done(c))) {
		job_finish(job);
		job_free(job);
	}
}

void control_finish_jobs(struct control *c)
{
	struct job *job;

	while ((job = c->jobs)) {
		c->jobs = job->next;
		c->nr_jobs--;
		pthread_join(job->thread, NULL);
		json_decref(job->reply.value);
		job_free(job);
	}
}
