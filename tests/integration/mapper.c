// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * mapper.c - a second process that maps the memory of a stand-in, as a vhost-user back end would, and reads none of it.
 *
 * mapper FILE MIB SECONDS: prints "MAPPED" when it has it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int fd = argc == 4 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0 || mmap(NULL, strtoul(argv[2], NULL, 10) << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   0) == MAP_FAILED) {
		perror("mapper");
		return 1;
	}
	close(fd);
	puts("MAPPED");
	fflush(stdout);
	sleep((unsigned int)atoi(argv[3]));
	return 0;
}
