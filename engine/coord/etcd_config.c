/* SPDX-License-Identifier: MIT */
#include "engine/coord/etcd_config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/spelling.h"

#define PORT	      "2379" /* etcd's default */
#define FILE_MAX_SIZE 65536
#define URL_MAX	      512

/* --- an endpoint --- */

/* Where the port begins, or the end of @host. NULL: that is no name or address of a host. */
static const char *port_of(const char *host)
{
	if (*host == '[') {
		size_t len = strspn(host + 1, "0123456789abcdefABCDEF:.");

		return len && host[1 + len] == ']' ? host + len + 2 : NULL;
	}
	if (!isalnum((unsigned char)*host))
		return NULL;
	while (isalnum((unsigned char)*host) || (*host && strchr("-._", *host)))
		host++;
	return host;
}

/* Adds @url. NULL, or what is wrong with it. */
static const char *add_url(struct etcd_config *c, const char *url, size_t len)
{
	char text[URL_MAX], whole[URL_MAX + sizeof(PORT)];
	const char *host, *port;

	if (c->nr_urls == ETCD_URLS_MAX)
		return "there are more than 16 URLs";
	if (len >= sizeof(text))
		return "a URL is too long";
	memcpy(text, url, len);
	text[len] = '\0';
	if (len > strlen("https://") && text[len - 1] == '/')
		text[--len] = '\0';
	if (!strncmp(text, "http://", 7))
		host = text + 7;
	else if (!strncmp(text, "https://", 8))
		host = text + 8;
	else
		return "a URL begins with http:// or https://";
	if (strchr(host, '@'))
		return "a password would be seen by all: it, and the user, belong into a file";
	port = port_of(host);
	if (!port || (*port && (*port != ':' || !port[1] ||
				port[1 + strspn(port + 1, "0123456789")] || strlen(port) > 6)))
		return "a URL is http://HOST:PORT or https://HOST:PORT, with nothing behind that";
	snprintf(whole, sizeof(whole), "%s%s", text, *port ? "" : ":" PORT);
	c->urls[c->nr_urls] = strdup(whole);
	if (!c->urls[c->nr_urls])
		return strerror(ENOMEM);
	c->nr_urls++;
	return NULL;
}

static int read_urls(struct etcd_config *c, const char *spec, struct error *e)
{
	const char *problem = NULL, *at = spec;

	for (; !problem; at++) {
		size_t len = strcspn(at, ",");

		problem = add_url(c, at, len);
		at += len;
		if (!*at)
			break;
	}
	if (!problem)
		return 0;
	/* The message repeats nothing that may be a password. */
	return FAIL(e, EINVAL, COORD_VALUE, "etcd:", strchr(spec, '@') ? "..." : spec, problem);
}

/* --- the file --- */

struct text_key {
	const char *name;
	size_t at; /* offset in struct etcd_config */
};

static const struct text_key text_keys[] = {
	{"ca", offsetof(struct etcd_config, ca)},
	{"cert", offsetof(struct etcd_config, cert)},
	{"key", offsetof(struct etcd_config, key)},
	{"user", offsetof(struct etcd_config, user)},
	{"password", offsetof(struct etcd_config, password)},
};
#define ENDPOINTS "endpoints"

static const char *nearest(const char *name)
{
	const char *found = ENDPOINTS;
	size_t least = spelling_distance(name, ENDPOINTS), i;

	for (i = 0; i < ARRAY_SIZE(text_keys); i++) {
		size_t d = spelling_distance(name, text_keys[i].name);

		if (d < least) {
			least = d;
			found = text_keys[i].name;
		}
	}
	return found;
}

static const char *read_endpoints(struct etcd_config *c, const json_t *list)
{
	const char *problem = NULL;
	const json_t *one;
	size_t i;

	if (!json_is_array(list) || !json_array_size(list))
		return "endpoints is no list of URLs";
	json_array_foreach (list, i, one) {
		if (!json_is_string(one))
			return "endpoints is no list of URLs";
		problem = problem ? problem
				  : add_url(c, json_string_value(one), json_string_length(one));
	}
	return problem;
}

/* Sets the text @name of @c. False: there is no such key. */
static bool set_text(struct etcd_config *c, const char *name, const json_t *value,
		     const char **problem)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(text_keys); i++) {
		char **text = (char **)((char *)c + text_keys[i].at);

		if (strcmp(name, text_keys[i].name))
			continue;
		if (!json_is_string(value) || !json_string_length(value))
			*problem = "the value of ca, cert, key, user or password is no text";
		else
			*text = strdup(json_string_value(value));
		return true;
	}
	return false;
}

static const char *check(const struct etcd_config *c, mode_t mode)
{
	const char *const files[] = {c->ca, c->cert, c->key};
	size_t i;

	if (!c->nr_urls)
		return "it has no endpoints";
	if (!c->user != !c->password)
		return "user and password belong together";
	if (!c->cert != !c->key)
		return "cert and key belong together";
	if (c->password && mode & 077)
		return "it has a password, and others may read it (chmod 600)";
	for (i = 0; i < ARRAY_SIZE(files); i++) {
		if (files[i] && *files[i] != '/')
			return "ca, cert and key are absolute paths";
		if (files[i] && access(files[i], R_OK))
			return "the file of ca, cert or key cannot be read";
	}
	for (i = 0; i < c->nr_urls; i++)
		if ((c->ca || c->cert) && strncmp(c->urls[i], "https:", 6))
			return "ca and cert are for https, and an endpoint is http";
	return NULL;
}

static int parse_file(struct etcd_config *c, const char *path, const char *text, size_t len,
		      mode_t mode, struct error *e)
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL), *value;
	const char *name, *problem = json_is_object(root) ? NULL : "it is no JSON object";
	int err = 0;

	json_object_foreach (root, name, value) {
		if (problem || err)
			break;
		if (!strcmp(name, ENDPOINTS))
			problem = read_endpoints(c, value);
		else if (!set_text(c, name, value, &problem))
			err = FAIL(e, EINVAL, ETCD_FILE_KEY, path, name, nearest(name));
	}
	json_decref(root);
	if (!problem && !err)
		problem = check(c, mode);
	return problem ? FAIL(e, EINVAL, ETCD_FILE, path, problem) : err;
}

static int read_file(struct etcd_config *c, const char *path, struct error *e)
{
	__cleanup_free char *text = malloc(FILE_MAX_SIZE);
	__cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t len = text && fd >= 0 && !fstat(fd, &st) ? read(fd, text, FILE_MAX_SIZE) : -1;
	int err;

	if (len < 0)
		return FAIL(e, errno, ETCD_FILE, path, strerror(errno));
	err = parse_file(c, path, text, (size_t)len, st.st_mode, e);
	explicit_bzero(text, FILE_MAX_SIZE);
	return err;
}

int etcd_config_read(struct etcd_config *c, const char *spec, struct error *e)
{
	memset(c, 0, sizeof(*c));
	return *spec == '/' ? read_file(c, spec, e) : read_urls(c, spec, e);
}

void etcd_config_finish(struct etcd_config *c)
{
	while (c->nr_urls)
		free(c->urls[--c->nr_urls]);
	free(c->ca);
	free(c->cert);
	free(c->key);
	free(c->user);
	if (c->password)
		explicit_bzero(c->password, strlen(c->password));
	free(c->password);
	memset(c, 0, sizeof(*c));
}
