/* SPDX-License-Identifier: BSD-3-Clause */
#include "message.h"

#include "comm/port.h"
#include "failure/failure.h"

static struct plait_link *link_of(const struct plait_comm *comm, const struct plait_message *m)
{
    return comm->peers[m->peer].link[m->space->messages];
}

/* ---- Queues ---------------------------------------------------------------------------------------------- */

static struct plait_request *pop(struct plait_message_queue *q)
{
    struct plait_request *r = q->first;

    q->first = r->next;
    return r;
}

/*
 * Does the receiver read memory that goes when the sender fails: a GPU's, or a thread's of this process? Reads of other
 * processes' memory cannot fault.
 */
static bool borrows(const struct plait_comm *comm, const struct plait_message *m)
{
    const struct plait_process *process = comm->peers[m->peer].process;

    return m->space->queued || (process != NULL && process->base == NULL);
}

/* Memory of a queued space is one slice, read in place; for a rank of another host it has several. */
static uint64_t count_slices(const struct plait_comm *comm, const struct plait_message *m)
{
    if (m->bytes <= PLAIT_MESSAGE_SLICE || (m->space->queued && comm->peers[m->peer].replica == NULL))
        return 1;
    return (m->bytes - 1) / PLAIT_MESSAGE_SLICE + 1;
}

void plait_message_begin(struct plait_request *r)
{
    struct plait_messages *all = r->comm->messages;
    struct plait_pair *pair = all->pairs[r->message.peer];
    struct plait_message_queue *queue = r->kind == PLAIT_REQUEST_SEND ? &pair->sends : &pair->recvs;

    r->message.slice = 0;
    r->message.in_place = false;
    r->message.number = queue->n++;
    r->message.nslice = count_slices(r->comm, &r->message);
    plait_request_append(&queue->first, &queue->end, r);
    all->n++;
    if (r->message.space->queued) {
        r->message.space->message_begin(r->comm, &r->message.target);
        all->queued = r->message.space;
    }
    if (r->kind == PLAIT_REQUEST_SEND)
        return;
    all->nrecv++;
    /*
     * A rank that fails waits for ranks that it sees receiving before its memory may go (wait_for_readers() in
     * destroy.c). So `receiving` is set before this rank looks for the sender's failure, see turn_in().
     */
    if (borrows(r->comm, &r->message) && all->nborrow++ == 0)
        atomic_store(&r->comm->own->receiving, 1);
}

static struct plait_message *first_of(const struct plait_message_queue *q)
{
    return q->first != NULL ? &q->first->message : NULL;
}

static void end_first(struct plait_message_queue *q, enum plait_status status)
{
    struct plait_request *r = pop(q);

    r->comm->messages->n--;
    if (!r->message.space->queued) {
        plait_request_end(r, status);
        return;
    }
    r->message.space->message_end(r->comm, &r->message.target);
    r->status = status; /* its caller may go on only when all is on the queue */
    r->next = r->comm->messages->done;
    r->comm->messages->done = r;
}

/* put: is the turn's work on its queues? */
static void end_done(struct plait_messages *all, enum plait_status put)
{
    for (struct plait_request *r; (r = all->done) != NULL;) {
        all->done = r->next;
        plait_request_end(r, r->status == PLAIT_OK ? put : r->status);
    }
}

static void end_recv(struct plait_pair *pair, enum plait_status status)
{
    struct plait_messages *all = pair->comm->messages;

    all->nrecv--;
    if (borrows(pair->comm, &pair->recvs.first->message) && --all->nborrow == 0)
        atomic_store_explicit(&pair->comm->own->receiving, 0, memory_order_release);
    end_first(&pair->recvs, status);
}

/* ---- Slices ---------------------------------------------------------------------------------------------- */

/* Bytes of the next slice. */
static size_t next_bytes(const struct plait_message *m)
{
    return m->slice + 1 < m->nslice ? PLAIT_MESSAGE_SLICE : m->bytes - m->slice * PLAIT_MESSAGE_SLICE;
}

/* Offer the next slice; false: not now. */
static bool offer(struct plait_comm *comm, struct plait_pair *pair, struct plait_message *m, enum plait_status *status)
{
    struct plait_link *link = link_of(comm, m);
    const size_t bytes = next_bytes(m);
    const char *data = m->data + m->slice * PLAIT_MESSAGE_SLICE;
    const bool small = bytes <= m->space->mailbox;
    bool exposed = m->space->queued || (!small && link->transport->reaches(link, data, bytes, false)), streams = false;

    m->space->order(comm, &m->target);
    if (!link->transport->ready(link, link->next_out))
        return false;
    if (!small && !exposed) {
        const enum plait_copy_mode mode =
            plait_copy_mode_of(&comm->copies, m->bytes, plait_single_copy(m->space, link, data, bytes));
        exposed = mode == PLAIT_COPY_SINGLE;
        streams = mode == PLAIT_COPY_STREAMED;
    }
    if (!small && !exposed) {
        char *place = plait_message_find_stage(comm, pair, link, bytes, status);
        if (place == NULL)
            return false;
        m->space->copy(comm, place, data, bytes, streams);
        data = place;
        comm->stats.bytes_staged += bytes;
    }
    if (!link->transport->offer(link, link->next_out, plait_message_print(m), plait_message_header(m), data, bytes,
                                small) &&
        small)
        exposed = true;
    m->in_place |= exposed;
    m->last = link->next_out++;
    m->slice++;
    comm->stats.messages++;
    comm->stats.bytes_sent += bytes;
    return true;
}

/* Checked before and after this rank reads the other's memory. */
static bool has_failed(const struct plait_comm *comm, uint32_t rank)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(&comm->peers[rank].control->failed) != PLAIT_OK;
}

/* Copy a slice that has come. False: the sender has failed, and its memory may have gone during the copy. */
static bool receive(struct plait_comm *comm, struct plait_message *m, struct plait_link *link, char *to,
                    const void *data, size_t bytes)
{
    if (bytes > 0 && data != to)
        m->space->copy(comm, to, data, bytes, m->bytes >= comm->streams_from);
    if (has_failed(comm, m->peer))
        return false;
    link->transport->release(link, link->next_in++);
    comm->stats.bytes_copied += bytes;
    m->slice++;
    return true;
}

/* Take the next slice. False: none has come, or an error (*status). */
static bool take(struct plait_comm *comm, struct plait_message *m, enum plait_status *status)
{
    struct plait_link *link = link_of(comm, m);
    const size_t bytes = next_bytes(m);
    char *to = m->data + m->slice * PLAIT_MESSAGE_SLICE;
    size_t sent = bytes;

    m->space->order(comm, &m->target);
    const void *data = link->transport->arrived(link, link->next_in, plait_message_print(m), to, &sent);
    if (data == NULL)
        return false;
    if (PLAIT_GUARDS && sent != bytes) { /* different messages with one fingerprint: 1 in 2^32 */
        *status =
            plait_comm_blame(comm, PLAIT_ERR_MISMATCH, m->peer, "rank %u sends %zu bytes where rank %u expects %zu",
                             m->peer, sent, comm->rank, bytes);
        return false;
    }
    return receive(comm, m, link, to, data, bytes); /* if not, the next turn sees the sender's failure */
}

/* ---- Turns ----------------------------------------------------------------------------------------------- */

static bool offer_sends(struct plait_comm *comm, struct plait_pair *pair, enum plait_status *status)
{
    bool moved = false;

    for (struct plait_request *r; (r = pair->sends.first) != NULL;) {
        struct plait_message *m = &r->message;
        while (m->slice < m->nslice && offer(comm, pair, m, status))
            moved = true;
        if (m->slice < m->nslice)
            break;
        if (m->in_place)
            plait_request_append(&pair->unread.first, &pair->unread.end, pop(&pair->sends));
        else
            end_first(&pair->sends, PLAIT_OK);
    }
    return moved;
}

static bool end_unread(const struct plait_comm *comm, struct plait_pair *pair)
{
    bool moved = false;

    while (pair->unread.first != NULL) {
        const struct plait_message *m = &pair->unread.first->message;
        const struct plait_link *link = link_of(comm, m);
        m->space->order(comm, &m->target);
        if (!plait_message_all_read(link, m->last, m->nslice))
            break;
        end_first(&pair->unread, PLAIT_OK);
        moved = true;
    }
    return moved;
}

static bool take_recvs(struct plait_comm *comm, struct plait_pair *pair, enum plait_status *status)
{
    bool moved = false;

    for (struct plait_message *m; (m = first_of(&pair->recvs)) != NULL && take(comm, m, status);) {
        moved = true;
        /* One slice of a long message in a turn: a rank that only copies would offer nothing meanwhile. */
        if (m->slice < m->nslice)
            break;
        end_recv(pair, PLAIT_OK);
    }
    return moved;
}

/* A message to this rank itself: one copy, when both calls are there. */
static bool pass_to_itself(struct plait_comm *comm, struct plait_pair *pair, enum plait_status *status)
{
    bool moved = false;

    while (*status == PLAIT_OK) {
        const struct plait_message *s = first_of(&pair->sends), *r = first_of(&pair->recvs);
        if (s == NULL || r == NULL)
            break;
        if (plait_message_header(s) != plait_message_header(r)) {
            *status = plait_message_differs(comm, r, plait_message_header(s));
            break;
        }
        r->space->order(comm, &r->target);
        if (r->space->queued)
            r->space->message_to_itself(comm, &s->target, s->data, &r->target, r->data, r->bytes);
        else if (r->bytes > 0 && r->data != s->data)
            r->space->copy(comm, r->data, s->data, r->bytes, false);
        comm->stats.bytes_copied += r->bytes;
        end_first(&pair->sends, PLAIT_OK);
        end_recv(pair, PLAIT_OK);
        moved = true;
    }
    return moved;
}

/* The half of a pair's turn that offers slices. */
static enum plait_status turn_out(struct plait_comm *comm, struct plait_pair *pair)
{
    enum plait_status status = PLAIT_OK;

    pair->out = false;
    if (pair->peer == comm->rank || plait_message_first_out(pair) == NULL)
        return PLAIT_OK;
    if (has_failed(comm, pair->peer))
        return plait_probe_failures(comm);
    pair->out = offer_sends(comm, pair, &status);
    return status;
}

/* The other half, which takes slices and ends the sends that have been read. */
static enum plait_status turn_in(struct plait_comm *comm, struct plait_pair *pair)
{
    enum plait_status status = PLAIT_OK;

    pair->in = false;
    if (pair->recvs.first == NULL && plait_message_first_out(pair) == NULL && !pair->out)
        return PLAIT_OK;
    if (pair->peer == comm->rank) {
        pair->in = pair->out = pass_to_itself(comm, pair, &status);
        return status;
    }
    if (has_failed(comm, pair->peer))
        return plait_probe_failures(comm);
    pair->in = take_recvs(comm, pair, &status);
    pair->out |= end_unread(comm, pair);
    return status;
}

/* Sends go first: other ranks then copy while this rank copies what it receives. */
static enum plait_status turn_pairs(struct plait_comm *comm, bool *moved)
{
    enum plait_status status = PLAIT_OK;

    for (struct plait_pair *pair = comm->messages->first; pair != NULL && status == PLAIT_OK; pair = pair->next)
        status = turn_out(comm, pair);
    for (struct plait_pair *pair = comm->messages->first; pair != NULL && status == PLAIT_OK; pair = pair->next) {
        status = turn_in(comm, pair);
        *moved |= pair->in || pair->out;
    }
    return status;
}

static enum plait_status wait_turn(struct plait_comm *comm, struct plait_pair *pair, bool rarely)
{
    const struct plait_request *first = pair->recvs.first != NULL ? pair->recvs.first : plait_message_first_out(pair);

    if (first == NULL && !pair->in && !pair->out)
        return PLAIT_OK;
    enum plait_status status = plait_message_wait_turn(comm, pair, rarely);
    if (status == PLAIT_OK && first != NULL && comm->failed == PLAIT_OK)
        status = first->space->poll(comm);
    return status;
}

/* The end of the turn's work on queues. If it is not there, no message of the turn has ended well. */
static enum plait_status end_queued(struct plait_comm *comm, const struct plait_space *space, enum plait_status status)
{
    space->end(comm);
    const enum plait_status put = space->poll(comm);
    end_done(comm->messages, put);
    return status == PLAIT_OK ? put : status;
}

bool plait_messages_turn(struct plait_comm *comm, bool rarely)
{
    struct plait_messages *all = comm->messages;
    bool moved = false;

    if (all == NULL || all->n == 0)
        return false;
    enum plait_status status = turn_pairs(comm, &moved);
    if (all->queued != NULL && (moved || status != PLAIT_OK))
        status = end_queued(comm, all->queued, status);
    for (struct plait_pair *pair = all->first; pair != NULL && status == PLAIT_OK; pair = pair->next)
        status = wait_turn(comm, pair, rarely);
    if (comm->port != NULL && moved && all->nrecv == 0)
        plait_port_rest(comm->port);
    if (status != PLAIT_OK)
        plait_requests_fail(comm, plait_comm_fail_too(comm, status));
    return moved || status != PLAIT_OK;
}

void plait_messages_fail(struct plait_comm *comm, enum plait_status status)
{
    for (struct plait_pair *pair = plait_first_pair(comm); pair != NULL; pair = pair->next) {
        while (pair->unread.first != NULL)
            end_first(&pair->unread, status);
        while (pair->sends.first != NULL)
            end_first(&pair->sends, status);
        while (pair->recvs.first != NULL)
            end_recv(pair, status);
    }
    if (comm->messages != NULL)
        end_done(comm->messages, status);
}
