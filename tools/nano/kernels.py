"""The four operations that plain autograd does badly on a CPU, with their gradients by hand.

Tokens of all documents of a step lie one after another in [tokens, features]: no padding, and every matrix product
sees all of them. Only attention has to know where documents begin (`lens`).
"""

import native
import torch
import torch.nn.functional as F

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class RMSNorm(torch.autograd.Function):
    """y = w x / sqrt(mean(x^2) + eps), in f32 inside."""

    @staticmethod
    def forward(ctx, x, w, eps):
        xf = x.to(torch.float32, copy=True)
        r = torch.rsqrt(xf.square().mean(-1, keepdim=True).add_(eps))
        ctx.save_for_backward(x, w, r)
        return (xf.mul_(r)).mul_(w).to(x.dtype)

    @staticmethod
    def backward(ctx, dy):
        x, w, r = ctx.saved_tensors
        n = x.float() * r  # normed x
        dyf = dy.float()
        product = dyf * n
        # dx = r (dn - n mean(dn n)), dn = w dy
        dot = torch.mv(product, w).div_(x.shape[-1]).unsqueeze_(-1)
        dx = torch.mul(dyf, w).sub_(n.mul_(dot)).mul_(r).to(x.dtype)
        return dx, product.sum(0), None


def rms_norm(x, w, eps):
    return RMSNorm.apply(x, w, eps)


def rope(x, cos, sin, inverse=False):
    """Rotates interleaved pairs. x [tokens, ..., 2 * pairs] (any dtype), cos and sin [tokens, pairs] f32."""
    shape = (x.shape[0],) + (1,) * (x.dim() - 2) + (-1,)
    c, s = cos.view(shape), sin.view(shape)
    if inverse:
        s = -s
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2).to(x.dtype)


def flash_forward(q, k, v, lens, masks, scale):
    """Causal attention inside each document. q, k, v [tokens, heads, dim] -> out alike, log-sum-exps.

    masks: None, or one additive [len, len] f32 mask per document (None for a document that needs none).
    """
    out, lses, start = torch.empty_like(q), [], 0
    for d, n in enumerate(lens):
        part = slice(start, start + n)
        mask = masks[d] if masks is not None else None
        qd, kd, vd = (t[part].transpose(0, 1).unsqueeze(0) for t in (q, k, v))
        o, lse = _flash(qd, kd, vd, 0.0, mask is None, attn_mask=mask, scale=scale)
        out[part] = o[0].transpose(0, 1)
        lses.append(lse)
        start += n
    return out, lses


def flash_backward(dout, q, k, v, out, lses, lens, masks, scale):
    dq, dk, dv, start = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), 0
    for d, n in enumerate(lens):
        part = slice(start, start + n)
        mask = masks[d] if masks is not None else None
        do, qd, kd, vd, od = (t[part].transpose(0, 1).unsqueeze(0) for t in (dout, q, k, v, out))
        g = _flash_backward(do, qd, kd, vd, od, lses[d], 0.0, mask is None, attn_mask=mask, scale=scale)
        for grad, whole in zip(g, (dq, dk, dv)):
            whole[part] = grad[0].transpose(0, 1)
        start += n
    return dq, dk, dv


class LatentAttention(torch.autograd.Function):
    """The core of MLA in its plain form: rotation, keys and values put together, softmax(q k / sqrt(d)) v.

    q [tokens, heads, nope + rope], kv [tokens, heads, nope + v], kpe [tokens, rope] -> [tokens, heads * v].
    For torch's kernel, which knows only one width, values are padded to the width of the keys. `keep`, a list,
    receives the rotated q and k (what the indexer learns from) and v.
    `q_cos`, `q_sin`: the queries' rotation where it differs from the keys' (unrolled steps of the MTP layer).
    """

    @staticmethod
    def forward(ctx, q, kv, kpe, rot, q_rot, lens, masks, dims, keep):
        nope, rot_dim, v_dim = dims
        tokens, heads = q.shape[:2]
        wide = nope + rot_dim
        qr = q.clone()
        qr[..., nope:] = rope(q[..., nope:], *q_rot)
        k = q.new_empty(tokens, heads, wide)
        k[..., :nope] = kv[..., :nope]
        k[..., nope:] = rope(kpe, *rot).unsqueeze(1)
        if native.lib and q.dtype == torch.bfloat16 and (wide, v_dim) == (native.QK, native.V):
            v = kv[..., nope:].contiguous()
            out, lses = native.attention(qr, k, v, lens, masks, wide**-0.5)
        else:
            v = q.new_zeros(tokens, heads, wide)
            v[..., :v_dim] = kv[..., nope:]
            out, lses = flash_forward(qr, k, v, lens, masks, wide**-0.5)
        ctx.save_for_backward(qr, k, v, out, *rot, *q_rot)
        ctx.rest = lses, lens, masks, dims
        if keep is not None:
            keep.append((qr, k, v))
        return out[..., :v_dim].reshape(tokens, heads * v_dim)

    @staticmethod
    def backward(ctx, dy):
        qr, k, v, out, cos, sin, q_cos, q_sin = ctx.saved_tensors
        lses, lens, masks, (nope, rot_dim, v_dim) = ctx.rest
        scale = (nope + rot_dim) ** -0.5
        dy = dy.contiguous().view(*out.shape[:2], v_dim)
        if torch.is_tensor(lses):
            dq, dk, dv = native.attention_backward(dy, qr, k, v, out, lses, lens, masks, scale)
        else:
            dout = torch.zeros_like(out)
            dout[..., :v_dim] = dy
            dq, dk, dv = flash_backward(dout, qr, k, v, out, lses, lens, masks, scale)
        dq[..., nope:] = rope(dq[..., nope:], q_cos, q_sin, inverse=True)
        dkpe = rope(dk[..., nope:].float().sum(1), cos, sin, inverse=True).to(dy.dtype)
        dkv = torch.cat((dk[..., :nope], dv[..., :v_dim]), -1)
        return dq, dkv, dkpe, None, None, None, None, None, None


class Experts(torch.autograd.Function):
    """y_t = sum over chosen e of g[t, e] down_e(silu(gate_e x_t) * up_e x_t), tokens sorted by expert.

    x [tokens, H], chosen [tokens, top] int64, g [tokens, top] f32, gate_up [E, 2 I, H], down [E, H, I].
    Each expert's rows are filled up to a multiple of GRAIN (with weight 0): oneDNN generates code for every new shape of a
    product, which would take longer than the product.
    """

    GRAIN = 64

    @staticmethod
    def forward(ctx, x, chosen, g, gate_up, down):
        tokens, top = chosen.shape
        experts, _, inter = down.shape
        flat = chosen.reshape(-1)
        order = torch.argsort(flat, stable=True)
        counts = torch.bincount(flat, minlength=experts)
        room = (counts + Experts.GRAIN - 1) // Experts.GRAIN * Experts.GRAIN
        ends = torch.cumsum(room, 0)
        # Where each (token, choice) lies among the filled-up rows; source: which token each of those rows comes from.
        shift = (ends - room) - (torch.cumsum(counts, 0) - counts)
        place = torch.arange(order.numel()) + shift[flat[order]]
        ends = ends.tolist()
        slot = torch.empty_like(order).scatter_(0, order, place)
        source = torch.zeros(ends[-1], dtype=torch.int64).scatter_(0, place, order // top)
        weight = x.new_zeros(ends[-1]).scatter_(0, place, g.reshape(-1)[order].to(x.dtype))
        xs = x.index_select(0, source)
        h = x.new_empty(ends[-1], 2 * inter)
        y = torch.empty_like(xs)
        start = 0
        for e, end in enumerate(ends):
            if end > start:
                torch.mm(xs[start:end], gate_up[e].t(), out=h[start:end])
            start = end
        act = F.silu(h[:, :inter]).mul_(h[:, inter:])
        start = 0
        for e, end in enumerate(ends):
            if end > start:
                torch.mm(act[start:end], down[e].t(), out=y[start:end])
            start = end
        ctx.save_for_backward(xs, h, act, y, source, slot, weight, gate_up, down)
        ctx.ends, ctx.shape = ends, (tokens, top)
        picked = y.index_select(0, slot).view(tokens, top, -1)
        return torch.bmm(g.to(x.dtype).unsqueeze(1), picked).squeeze(1)

    @staticmethod
    def backward(ctx, dout):
        xs, h, act, y, source, slot, weight, gate_up, down = ctx.saved_tensors
        inter = down.shape[2]
        dy = dout.index_select(0, source)
        dg = torch.linalg.vecdot(dy, y).index_select(0, slot).view(ctx.shape).float()
        dy.mul_(weight.unsqueeze(1))
        dact, dxs = torch.empty_like(act), torch.empty_like(xs)
        dgate_up, ddown = torch.zeros_like(gate_up), torch.zeros_like(down)
        start = 0
        for e, end in enumerate(ctx.ends):
            if end > start:
                torch.mm(dy[start:end], down[e], out=dact[start:end])
                torch.mm(dy[start:end].t(), act[start:end], out=ddown[e])
            start = end
        gate, up = h[:, :inter], h[:, inter:]
        dh = torch.empty_like(h)
        s = torch.sigmoid(gate)
        silu = gate * s
        torch.mul(dact, silu, out=dh[:, inter:])
        # silu' = s + silu (1 - s)
        torch.mul(dact.mul_(up), s + silu * (1 - s), out=dh[:, :inter])
        start = 0
        for e, end in enumerate(ctx.ends):
            if end > start:
                torch.mm(dh[start:end], gate_up[e], out=dxs[start:end])
                torch.mm(dh[start:end].t(), xs[start:end], out=dgate_up[e])
            start = end
        dx = dxs.index_select(0, slot).view(*ctx.shape, -1).sum(1)
        return dx, None, dg, dgate_up, ddown


class HeadLoss(torch.autograd.Function):
    """sum_t weight_t * cross entropy(h_t head^T, target_t), by chunks that stay in the cache.

    h [rows, H], head [vocab, H]; targets: labels [rows] int64, or soft targets as (hidden', head') whose
    softmax(hidden' head'^T / temperature) is the target distribution (distillation, for the MTP layer).
    -> loss (f32 scalar); not differentiable: top-1 ids [rows], each row's cross entropy.
    """

    CHUNK = 512

    @staticmethod
    def forward(ctx, h, head, targets, weight):
        rows = h.shape[0]
        learn_head = ctx.needs_input_grad[1]
        dh = torch.empty_like(h)
        dhead = torch.zeros(head.shape, dtype=torch.float32) if learn_head else None
        best = torch.empty(rows, dtype=torch.int64)
        each = torch.empty(rows)
        for s in range(0, rows, HeadLoss.CHUNK):
            e = min(s + HeadLoss.CHUNK, rows)
            logits = torch.mm(h[s:e], head.t()).float()
            best[s:e] = logits.argmax(-1)
            logp = torch.log_softmax(logits, -1)
            w = weight[s:e].unsqueeze(1)
            if isinstance(targets, tuple):
                hidden, matrix, temperature = targets
                p = torch.softmax(torch.mm(hidden[s:e], matrix.t()).float().div_(temperature), -1)
                each[s:e] = -(p * logp).sum(-1)
                grad = logp.exp_().sub_(p).mul_(w)
            else:
                label = targets[s:e].unsqueeze(1)
                each[s:e] = -logp.gather(1, label).squeeze(1)
                grad = logp.exp_().scatter_add_(1, label, torch.full_like(w, -1.0)).mul_(w)
            grad = grad.to(h.dtype)
            torch.mm(grad, head, out=dh[s:e])
            if learn_head:
                dhead += torch.mm(grad.t(), h[s:e])
        ctx.save_for_backward(dh, dhead)
        ctx.mark_non_differentiable(best, each)
        ctx.head_dtype = head.dtype
        return each.dot(weight), best, each

    @staticmethod
    def backward(ctx, dloss, _best, _each):
        dh, dhead = ctx.saved_tensors
        dhead = None if dhead is None else (dhead * dloss).to(ctx.head_dtype)
        return dh * dloss.to(dh.dtype), dhead, None, None
